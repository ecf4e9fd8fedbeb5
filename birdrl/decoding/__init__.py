"""Decoding on CPU, the same for training rollouts and for evaluation: continuous batching over transformers models."""

from birdrl.decoding.decoder import Decoder, Request, Sampled

__all__ = ["Decoder", "Request", "Sampled"]
