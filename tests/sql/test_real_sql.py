"""Real gold queries give in a worker what they give on a plain file."""

from __future__ import annotations

import json
import os
from itertools import groupby
from pathlib import Path

import apsw
import pytest

from birdrl.errors import InfraError
from birdrl.sql import PoolConfig, ReplicaPool

SPIDER = Path(os.environ.get("BIRDRL_SHARED_DATA", "../shared/data")) / "spider"
EVERY = 3  # of the dev questions


@pytest.mark.skipif(not (SPIDER / "dev.json").exists(), reason=f"no Spider data at {SPIDER}; set BIRDRL_SHARED_DATA")
def test_spider_gold_gives_the_same_results_and_leaves_replicas_pristine() -> None:
    questions = json.loads((SPIDER / "dev.json").read_text())[::EVERY]
    compared = 0
    with ReplicaPool(PoolConfig(workers=2, statement_timeout_s=20.0)) as pool:
        for db_id, group in groupby(questions, key=lambda row: row["db_id"]):
            path = SPIDER / "database" / db_id / f"{db_id}.sqlite"
            if db_id == "wta_1":  # empty in this copy of the data
                continue
            plain = apsw.Connection(f"file:{path.resolve()}?immutable=1", flags=apsw.SQLITE_OPEN_URI | 1)
            with pool.acquire(db_id, path) as lease:
                for row in group:
                    (result,) = lease.execute(row["query"])
                    try:
                        expected = plain.execute(row["query"]).fetchall()
                    except UnicodeDecodeError:
                        assert result.ok
                        assert "\ufffd" in str(result.rows)
                        continue
                    assert result.ok, result.message
                    assert list(result.rows) == expected
                    assert lease.features(row["query"]).tables
                    compared += 1
                assert not lease.dirty
        assert pool.counters.resets == 0
        with pytest.raises(InfraError):
            pool.lookup("anybody")
    assert compared > 250
