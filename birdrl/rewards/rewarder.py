"""From one configuration and a finished trajectory to its reward, with parts, outcome and who is to blame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from birdrl.agent.prompting import PromptSet
from birdrl.endpoint import Endpoint
from birdrl.errors import InfraError
from birdrl.gym.instance import Instance
from birdrl.gym.schema import Schema
from birdrl.params import RewardParams
from birdrl.rewards.atr import atr
from birdrl.rewards.auxiliary import Q_MAX, gated, judge_parts, partial_parts, rubric_parts
from birdrl.rewards.csmr import query_value
from birdrl.rewards.execution import Blame, ExecutionScore, ExecutionScorer, share_passed
from birdrl.rewards.judge import Judge, Rubric
from birdrl.rewards.overlap import SchemaReader, bigrams, f1, jaccard
from birdrl.rewards.peers import Facts, cell_overlap, peer_parts
from birdrl.rewards.trajectory import Trajectory, states
from birdrl.sql.pool import ReplicaPool

# Two points for what makes a query nested or compound, one for what makes it longer (ours, after Spider's classes).
_HARD = {"subquery", "correlated_subquery", "exists", "union", "intersect", "except", "cte", "recursive_cte", "window"}
_LONGER = {"join", "group_by", "order_by", "having", "limit", "like", "case", "distinct", "between", "in"}
_PUBLISHED = {"simple": "easy", "moderate": "medium", "challenging": "hard"}  # BIRD's names


class Store(Protocol):
    """What rewards need of a template store."""

    def path(self, db_id: str) -> Path: ...

    def schema(self, db_id: str) -> Schema: ...


class Outcome(StrEnum):
    """What became of a trajectory's solution."""

    SOLVED = "solved"  # every test passes
    PARTIAL = "partial"  # some do
    WRONG = "wrong"  # it runs, and none does
    FAILED = "failed"  # a statement of it is refused
    TIMED_OUT = "timed_out"
    NO_SOLUTION = "no_solution"


@dataclass(frozen=True)
class TrajectoryReward:
    """`reward` is the sum of `parts`. `blame`: NONE when solved, else POLICY; what is not the policy's fault raises.

    `turn_scores`: Phi of each state, for rewards that look at turns. `turn_rewards`: for the step-wise reward, what
    each assistant turn earns. `unparsable`: answers of a language model that were of no use and counted as zero.
    """

    reward: float
    parts: Mapping[str, float]
    outcome: Outcome
    blame: Blame
    reason: str
    execution: ExecutionScore
    turn_scores: tuple[float, ...] = ()
    turn_rewards: tuple[float, ...] = ()
    unparsable: int = 0


@dataclass
class _Scored:
    """Execution scores of a trajectory's SQL, each text scored once."""

    scorer: ExecutionScorer
    instance: Instance
    scores: dict[str, ExecutionScore] = field(default_factory=dict)

    def of(self, sql: str) -> ExecutionScore:
        if sql not in self.scores:
            self.scores[sql] = self.scorer.score(self.instance, [sql])
        return self.scores[sql]


class Rewarder:
    """Rewards trajectories by one configuration. Thread-safe; blocks while SQL runs or a language model answers.

    `pool` must not be one whose replicas a waiting trajectory holds. Raises InputError for a reward that needs an
    endpoint without one.
    """

    def __init__(
        self, params: RewardParams, scorer: ExecutionScorer, store: Store, pool: ReplicaPool, prompts: PromptSet
    ) -> None:
        self.params = params
        self._scorer, self._store = scorer, store
        self._pool = pool
        self._reader = SchemaReader(store, pool)
        self.endpoint = Endpoint(params.endpoint) if params.needs_endpoint else None
        if self.endpoint is not None:
            self._judge = Judge(self.endpoint, prompts, store, params.judge)
            self._rubric = Rubric(self.endpoint, prompts, store, params.rubric)

    def reward(self, trajectory: Trajectory) -> TrajectoryReward:
        """The reward of a finished trajectory.

        Raises InfraError when the machinery failed, in the trajectory or in scoring it, and GoldError when the
        instance did: neither is a reward of zero.
        """
        if trajectory.blame is Blame.INFRA:
            name = trajectory.instance.instance_id
            raise InfraError(f"{name}: the trajectory ended as {trajectory.stop} by no fault of the policy")
        scored = _Scored(self._scorer, trajectory.instance)
        final = scored.of("\n".join(trajectory.final_sql or ()))
        turn_scores: tuple[float, ...] = ()
        turn_rewards: tuple[float, ...] = ()
        unparsable = 0
        kind = self.params.kind
        if kind == "execution":
            parts, unparsable = self._execution(trajectory, final)
        elif kind == "csmr":
            parts = {"csmr": self._phi(trajectory.instance, final)}
        elif kind in ("atr", "step_wise"):
            levels = self._levels(trajectory, scored)
            turn_scores = tuple(level for _, level in levels)
            if kind == "atr":
                score = atr(turn_scores, self.params.atr, max_turns=trajectory.max_turns)
                parts = {"atr/gain": score.gain, "atr/cost": score.cost}
            else:
                by_turn = dict(levels)  # of two states in one turn, the later one
                turn_rewards = tuple(by_turn.get(turn, 0.0) for turn in range(len(trajectory.turns)))
                parts = {"turns": sum(turn_rewards)}
        else:
            facts, unparsable = self._facts(trajectory, final)
            terms = peer_parts(kind, facts, self.params.term_weights)
            parts = {f"{kind}/{name}": value for name, value in terms.items()}
        return TrajectoryReward(
            reward=sum(parts.values()),
            parts=parts,
            outcome=outcome_of(final),
            blame=Blame.NONE if final.solved else Blame.POLICY,
            reason=final.reason,
            execution=final,
            turn_scores=turn_scores,
            turn_rewards=turn_rewards,
            unparsable=unparsable,
        )

    def turn_scores(self, trajectory: Trajectory) -> tuple[float, ...]:
        """Phi of each state, whatever the reward: what the Lyapunov view is computed from."""
        levels = self._levels(trajectory, _Scored(self._scorer, trajectory.instance))
        return tuple(level for _, level in levels)

    # --- turns

    def _levels(self, trajectory: Trajectory, scored: _Scored) -> list[tuple[int, float]]:
        """(turn, Phi) of each state. A query that failed when it ran has the value 0."""
        found = []
        for state in states(trajectory, answer_like=self.params.atr.score_turns == "answer_like"):
            runs = state.ok and state.sql is not None
            level = self._phi(trajectory.instance, scored.of(state.sql)) if runs and state.sql is not None else 0.0
            found.append((state.turn, level))
        return found

    def _phi(self, instance: Instance, score: ExecutionScore) -> float:
        if self.params.turn_score == "binary":
            return float(score.solved)
        return query_value(instance, score, self.params.csmr, every_database=self.params.every_database)

    # --- the solution

    def _execution(self, trajectory: Trajectory, final: ExecutionScore) -> tuple[dict[str, float], int]:
        share = share_passed(trajectory.instance, final, every_database=self.params.every_database)
        if share > 0 or self.params.auxiliary == "none":
            return gated(share, {}), 0
        executable = final.status == "ok"
        if self.params.auxiliary == "partial":
            overlap = self._schema_overlap(trajectory, f1 if self.params.partial.schema_score == "f1" else jaccard)
            return gated(0.0, partial_parts(executable, overlap, self.params.partial)), 0
        if self.params.auxiliary == "judge":
            grades = self._judge.grade(trajectory)
            marks = (0.0, 0.0) if grades is None else (grades.trajectory, grades.solution)
            return gated(0.0, judge_parts(*marks, self.params.judge)), int(grades is None)
        named = self._rubric.named(trajectory)
        found, bugs = (0, 0) if named is None else named
        return gated(0.0, rubric_parts(executable, found, bugs, self.params.rubric)), int(named is None)

    def _facts(self, trajectory: Trajectory, final: ExecutionScore) -> tuple[Facts, int]:
        """Only what the chosen form gives weight to is computed."""
        weights = {name for name, weight in self.params.term_weights.items() if weight != 0}
        instance, solution = trajectory.instance, "\n".join(trajectory.final_sql or ())
        last = trajectory.turns[-1] if trajectory.turns else None
        text = last.text if last else ""
        judged, unparsable = 0.0, 0
        if "judge" in weights and not final.solved:
            grades = self._judge.grade(trajectory)
            judged = 0.0 if grades is None else (grades.trajectory + grades.solution) / Q_MAX
            unparsable = int(grades is None)
        gold = "\n".join(instance.sol_sql)
        pair = final.results[0] if final.results else None
        facts = Facts(
            formatted=trajectory.formatted,
            executed=final.status == "ok",
            right=final.solved,
            turns=len(trajectory.turns),
            max_turns=trajectory.max_turns,
            difficulty=self._difficulty(instance) if "turns" in weights else "easy",
            schema_overlap=self._schema_overlap(trajectory, jaccard) if "schema" in weights else 0.0,
            bigram_overlap=jaccard(bigrams(solution), bigrams(gold)) if "bigrams" in weights else 0.0,
            judge=judged,
            cells=cell_overlap(pair.prediction, pair.reference) if pair and pair.reference else float(final.solved),
            tags=sum((bool(last and last.thought), *_tags(text))),
            thought_chars=len(trajectory.reasoning),
            answer_chars=len(text) - len(last.thought) if last else 0,
            sql_chars=len(solution),
        )
        return facts, unparsable

    def _schema_overlap(self, trajectory: Trajectory, measure: Overlap) -> float:
        instance = trajectory.instance
        schema = self._store.schema(instance.db_id)
        ours = self._reader.items(instance.db_id, trajectory.final_sql or (), schema)
        return measure(ours, self._reader.items(instance.db_id, instance.sol_sql, schema))

    def _difficulty(self, instance: Instance) -> str:
        """The instance's own `difficulty`, else by what the reference's syntax tree holds (ours)."""
        published = instance.difficulty
        if published:
            return _PUBLISHED.get(published, published)
        names = self._reader.features(instance.db_id, instance.sol_sql).names
        points = 2 * len(names & _HARD) + len(names & _LONGER)
        return "easy" if points <= 1 else "medium" if points <= 3 else "hard"


class Overlap(Protocol):
    """A measure of overlap of two sets of items, in [0, 1]."""

    def __call__(self, ours: set[str], theirs: set[str], /) -> float: ...


def outcome_of(score: ExecutionScore) -> Outcome:
    """What became of a solution."""
    if score.status == "empty":
        return Outcome.NO_SOLUTION
    if score.status in ("timeout", "killed"):
        return Outcome.TIMED_OUT
    if score.status != "ok":
        return Outcome.FAILED
    return Outcome.SOLVED if score.solved else Outcome.PARTIAL if score.passed else Outcome.WRONG


def _tags(text: str) -> tuple[bool, bool, bool]:
    """Whether a last call or fenced block is opened, closed, and followed by nothing."""
    opening, closing = ("<tool_call>", "</tool_call>") if "<tool_call>" in text else ("```", "```")
    opened = text.find(opening) >= 0
    closed = opened and text.rfind(closing) > text.find(opening)
    return opened, closed, closed and text.rstrip().endswith(closing)
