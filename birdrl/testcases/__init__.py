"""Test cases of the public Python form, run where they can do no harm."""

from birdrl.testcases.public import DEFAULT_TEST
from birdrl.testcases.sandbox import SandboxConfig, SandboxReport, TestSandbox

__all__ = ["DEFAULT_TEST", "SandboxConfig", "SandboxReport", "TestSandbox"]
