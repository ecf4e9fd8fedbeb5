"""A gym from posts: which post goes to which side and database, many at a time, in an order that can be repeated."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from birdrl.endpoint import Endpoint
from birdrl.errors import InfraError, InputError
from birdrl.gym.build import Gym, Progress, split_databases
from birdrl.gym.build_steps import patient_pool
from birdrl.gym.instance import Instance
from birdrl.gym.near import NearDuplicates
from birdrl.gym.rewind.gates import Limits, fingerprint
from birdrl.gym.teacher.posts import Post, read_exclusions, read_posts
from birdrl.gym.teacher.rewinder import PostRewinder, Refused, Rewound
from birdrl.gym.templates import TemplateStore
from birdrl.params import GymParams
from birdrl.sql.pool import ReplicaPool

NO_BUDGET = "teacher: endpoint.budget_tokens is used up"
LOOK_AHEAD = 4  # posts at work per request at a time, so that slow ones hold up nobody


def build_teacher_gym(
    store: TemplateStore, params: GymParams, seed: int, progress: Progress = lambda phase, done: None
) -> Gym:
    """Build the gym from `params.posts` with the model behind `params.teacher.endpoint`.

    A post is used on one side only, on at most `databases_per_post` of its databases. Answers are cached, so a run that
    was cut short or ran out of budget goes on where it stopped. Fewer instances than wanted is not an error here.
    Raises InputError for bad parameters or files, InfraError when the endpoint or SQL workers fail.
    """
    reasons: Counter[str] = Counter()
    posts = _posts(params, reasons)
    train, held_out = split_databases(store.db_ids, params, seed)
    sides = _sides(posts, params, seed)
    quarantine: list[dict[str, Any]] = []
    made: dict[str, list[Instance]] = {}
    endpoint = Endpoint(params.teacher.endpoint)
    limits = Limits(params.max_sql_chars, params.max_words)
    with ReplicaPool(patient_pool(params, params.workers)) as pool:
        rewinder = PostRewinder(
            store, pool, endpoint, limits=limits, rounds=params.teacher.rounds, shares=params.shares, seed=seed
        )
        try:
            for side, db_ids, wanted in (
                ("eval", held_out, params.eval_instances), ("train", train, params.train_instances),
            ):  # fmt: skip
                pairs = _pairs(sides[side], db_ids, params.teacher.databases_per_post, seed)
                run = _Run(rewinder, endpoint, params, reasons, quarantine)
                made[side] = run.collect(pairs, wanted, progress)
        finally:
            rewinder.close()
    return Gym(
        train=_numbered(made["train"]),
        evaluation=_numbered(made["eval"]),
        quarantine=quarantine,
        reasons=reasons,
        verified=Counter(instance.db_id for side in made.values() for instance in side),
        wanted={"train": params.train_instances, "eval": params.eval_instances},
        unusable={"databases": Counter(store.rejected.values())},
    )


class _Run:
    """The posts of one side."""

    def __init__(
        self,
        rewinder: PostRewinder,
        endpoint: Endpoint,
        params: GymParams,
        reasons: Counter[str],
        quarantine: list[dict[str, Any]],
    ) -> None:
        self._rewinder, self._endpoint, self._params = rewinder, endpoint, params
        self._reasons, self._quarantine = reasons, quarantine

    def collect(self, pairs: Iterator[tuple[Post, str]], wanted: int, progress: Progress) -> list[Instance]:
        """Up to `wanted` instances, in the order of the pairs, whichever answer comes first."""
        accepted: list[Instance] = []
        seen: set[str] = set()
        near: dict[str, NearDuplicates] = {}
        waiting: deque[tuple[Post, str, Future[Rewound | Refused]]] = deque()
        most = LOOK_AHEAD * self._params.teacher.requests
        with ThreadPoolExecutor(self._params.teacher.requests) as threads:
            try:
                while len(accepted) < wanted:
                    # No more posts are begun than instances are missing: what is not needed is not paid for.
                    room = min(most, wanted - len(accepted)) - len(waiting)
                    for post, db_id in islice(pairs, room):
                        waiting.append((post, db_id, threads.submit(self._rewind, post, db_id)))
                    if not waiting:
                        break
                    post, db_id, answer = waiting.popleft()
                    result = answer.result()
                    if isinstance(result, Refused):
                        self._refuse(post, db_id, str(result))
                        continue
                    made, key = result.instance, fingerprint(result.draft)
                    known = near.setdefault(db_id, NearDuplicates(self._params.near_text, self._params.near_sql))
                    if key in seen:
                        self._refuse(post, db_id, "duplicate")
                    elif known.find(made.query, made.issue_sql, made.sol_sql) is not None:
                        self._refuse(post, db_id, "near-duplicate")
                    else:
                        seen.add(key)
                        known.add(made.query, made.issue_sql, made.sol_sql)
                        accepted.append(made)
                        progress("issues", 1)
            finally:
                threads.shutdown(wait=True, cancel_futures=True)
        return accepted

    def _rewind(self, post: Post, db_id: str) -> Rewound | Refused:
        try:
            return self._rewinder.rewind(post, db_id)
        except Refused as refused:
            return refused
        except InfraError:
            # Posts whose answers are all in the cache still go through.
            budget = self._endpoint.params.budget_tokens
            if budget is None or self._endpoint.spent_tokens < budget:
                raise
            return Refused(NO_BUDGET)

    def _refuse(self, post: Post, db_id: str, reason: str) -> None:
        step, _, why = reason.partition(": ")
        self._reasons[f"{step}: {why.partition(':')[0]}" if why else step] += 1
        self._quarantine.append({**asdict(post), "db_id": db_id, "reason": reason})


def _posts(params: GymParams, reasons: Counter[str]) -> list[Post]:
    if not params.posts:
        raise InputError("gym.posts: empty; name the Posts.xml of a Stack Overflow dump or a JSON-lines file of posts")
    excluded = read_exclusions(Path(params.exclude_posts)) if params.exclude_posts else frozenset[str]()
    posts = list(read_posts(map(Path, params.posts), excluded, params.teacher.tags, reasons))
    if not posts:
        why = "; ".join(f"{reason} ({count})" for reason, count in reasons.most_common(3)) or "the files are empty"
        raise InputError(f"gym.posts: no usable post in {', '.join(params.posts)}: {why}")
    return posts


def _sides(posts: Sequence[Post], params: GymParams, seed: int) -> dict[str, list[Post]]:
    """Each post on one side, shuffled; the sides' shares are those of the instances wanted."""
    order = list(posts)
    Random(f"{seed}:posts").shuffle(order)
    if params.eval_instances == 0:
        return {"eval": [], "train": order}
    wanted = params.train_instances + params.eval_instances
    cut = max(1, round(len(order) * params.eval_instances / wanted)) if len(order) > 1 else 0
    return {"eval": order[:cut], "train": order[cut:]}


def _pairs(posts: Sequence[Post], db_ids: Sequence[str], each: int, seed: int) -> Iterator[tuple[Post, str]]:
    """(post, database): every post once, then every post on a second database, and so on."""
    choices = {post.id: Random(f"{seed}:{post.id}").sample(list(db_ids), min(each, len(db_ids))) for post in posts}
    for place in range(min(each, len(db_ids))):
        for post in posts:
            yield post, choices[post.id][place]


def _numbered(instances: Sequence[Instance]) -> list[Instance]:
    count: Counter[str] = Counter()
    numbered = []
    for instance in instances:
        numbered.append(instance.model_copy(update={"instance_id": f"post_{instance.db_id}_{count[instance.db_id]}"}))
        count[instance.db_id] += 1
    return numbered
