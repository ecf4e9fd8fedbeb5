"""Housekeeping on the Prefect server."""

from __future__ import annotations

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowFilter, FlowFilterName, FlowRunFilter
from prefect.client.schemas.objects import StateType
from prefect.context import FlowRunContext
from prefect.states import Crashed


def close_killed_runs() -> None:
    """Mark flow runs as crashed that still say Running although their process is gone.

    Only one run at a time holds the checkout, so whatever else says Running was killed.
    """
    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        return
    with get_client(sync_client=True) as client:
        runs = client.read_flow_runs(
            flow_filter=FlowFilter(name=FlowFilterName(any_=[context.flow.name])),
            flow_run_filter=FlowRunFilter.model_validate({"state": {"type": {"any_": [StateType.RUNNING]}}}),
        )
        for run in runs:
            if run.id != context.flow_run.id:
                state = Crashed(message="The process of this run was killed; a later run has taken over.")
                client.set_flow_run_state(run.id, state, force=True)
