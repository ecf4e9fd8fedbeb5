"""What a policy's SQL may do, and which actions leave a replica pristine.

One authorizer does both: it denies what would reach outside the replica or the process, ignores pragmas
that only tune storage, and raises a flag at every action that is not on the list of harmless ones. The flag
is an allow-list on purpose: an action that nobody thought of makes the replica dirty, never pristine.
"""

from __future__ import annotations

from enum import IntEnum

import apsw


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Reading pragmas that take no argument; with one, they would set something.
READING_PRAGMAS = _words(
    "application_id auto_vacuum collation_list compile_options database_list encoding foreign_keys "
    "freelist_count function_list page_count page_size pragma_list schema_version user_version"
)
# Reading pragmas whose argument names a table or an index, or limits the output.
READING_PRAGMAS_WITH_ARGUMENT = _words(
    "foreign_key_check foreign_key_list index_info index_list index_xinfo integrity_check quick_check "
    "table_info table_list table_xinfo"
)
# Change the replica or its connection: allowed, and the replica is dirty afterwards.
CHANGING_PRAGMAS = _words(
    "application_id auto_vacuum case_sensitive_like defer_foreign_keys encoding foreign_keys "
    "ignore_check_constraints incremental_vacuum legacy_alter_table optimize page_size query_only "
    "recursive_triggers reverse_unordered_selects user_version"
)
# Storage tuning that public test cases issue out of habit: accepted, without effect or result. data_version as well:
# it counts changes of the page cache, so on a connection kept from an earlier lease it would tell of that.
IGNORED_PRAGMAS = _words(
    "analysis_limit automatic_index busy_timeout cache_size cache_spill cell_size_check checkpoint_fullfsync "
    "data_version fullfsync hard_heap_limit journal_mode journal_size_limit locking_mode max_page_count mmap_size "
    "read_uncommitted secure_delete shrink_memory soft_heap_limit synchronous temp_store threads wal_autocheckpoint "
    "wal_checkpoint"
)
DENIED_FUNCTIONS = _words("load_extension fts3_tokenizer readfile writefile edit sqlite_log")
# Virtual tables; the others, dbstat above all, do not even exist for a session.
ALLOWED_MODULES = _words("fts3 fts4 fts4aux fts5 fts5vocab geopoly rtree rtree_i32")
_KEPT_MODULES = sorted(ALLOWED_MODULES)
_PRISTINE_ACTIONS = frozenset({apsw.SQLITE_SELECT, apsw.SQLITE_READ, apsw.SQLITE_FUNCTION, apsw.SQLITE_RECURSIVE})
_ROW_ACTIONS = frozenset({apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE, apsw.SQLITE_DELETE})
_TRANSACTION_ACTIONS = frozenset({apsw.SQLITE_TRANSACTION, apsw.SQLITE_SAVEPOINT})
_SCHEMA_ACTIONS = frozenset(
    {
        *(apsw.SQLITE_CREATE_TABLE, apsw.SQLITE_CREATE_INDEX, apsw.SQLITE_CREATE_VIEW, apsw.SQLITE_CREATE_TRIGGER),
        *(apsw.SQLITE_DROP_TABLE, apsw.SQLITE_DROP_INDEX, apsw.SQLITE_DROP_VIEW, apsw.SQLITE_DROP_TRIGGER),
        apsw.SQLITE_REINDEX,
    }
)

# Lowered engine limits. ATTACHED stays 1 because VACUUM attaches a temporary database.
LIMITS = {
    apsw.SQLITE_LIMIT_LENGTH: 1_000_000,
    apsw.SQLITE_LIMIT_SQL_LENGTH: 500_000,
    apsw.SQLITE_LIMIT_EXPR_DEPTH: 500,
    apsw.SQLITE_LIMIT_COMPOUND_SELECT: 200,
    apsw.SQLITE_LIMIT_FUNCTION_ARG: 127,
    apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1_000,
    apsw.SQLITE_LIMIT_VDBE_OP: 1_000_000,
    apsw.SQLITE_LIMIT_TRIGGER_DEPTH: 50,
    apsw.SQLITE_LIMIT_ATTACHED: 1,
    apsw.SQLITE_LIMIT_WORKER_THREADS: 0,
}


class Touched(IntEnum):
    """How far changes may have gone; each includes those before it."""

    NOTHING = 0
    ROWS = 1  # of ordinary tables, and transactions
    SCHEMA = 2  # of the database, not the temporary one, and statistics
    ANYTHING = 3  # also what SQLite keeps in the connection


class Policy:
    """The authorizer of one connection.

    `touched`: what actions since `rearm` may have changed of the replica or its connection.
    `reason`: why the latest statement was denied, empty if it was not. `ignored`: the pragma in it that has no effect.
    `executing`: a statement has been prepared and runs now; only VACUUM attaches anything then.
    """

    def __init__(self) -> None:
        self.touched = Touched.NOTHING
        self.reason = ""
        self.ignored = ""
        self.executing = False

    @property
    def dirty(self) -> bool:
        return self.touched > Touched.NOTHING

    def apply(self, connection: apsw.Connection) -> None:
        """Set limits, defensive mode and the authorizer on a new connection."""
        for limit, value in LIMITS.items():
            connection.limit(limit, value)
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        connection.drop_modules(_KEPT_MODULES)
        self.rearm(connection)

    def rearm(self, connection: apsw.Connection) -> None:
        """Start watching anew. Setting the authorizer expires prepared statements, which would not call it again."""
        self.touched = Touched.NOTHING
        connection.authorizer = self.authorize

    def authorize(self, action: int, a: str | None, b: str | None, schema: str | None, trigger: str | None) -> int:
        """SQLite's authorizer callback: OK, DENY or IGNORE."""
        if action in _PRISTINE_ACTIONS:
            if action == apsw.SQLITE_READ and (a or "").lower() == "pragma_data_version":
                return apsw.SQLITE_IGNORE
            if action == apsw.SQLITE_FUNCTION and (b or "").lower() in DENIED_FUNCTIONS:
                return self._deny(f"function {b} is not available")
            return apsw.SQLITE_OK
        if action == apsw.SQLITE_PRAGMA:
            return self._pragma((a or "").lower(), b)
        self.touched = max(self.touched, _reach(action, a or "", schema))
        if action == apsw.SQLITE_ATTACH and not (a == "" and self.executing):
            return self._deny("ATTACH and VACUUM INTO are not allowed: only this database is available")
        if action == apsw.SQLITE_DETACH and not self.executing:
            return self._deny("DETACH is not allowed")
        if action == apsw.SQLITE_CREATE_VTABLE and (b or "").lower() not in ALLOWED_MODULES:
            return self._deny(f"virtual tables of module {b} are not allowed")
        return apsw.SQLITE_OK

    def _pragma(self, name: str, argument: str | None) -> int:
        if name in READING_PRAGMAS_WITH_ARGUMENT or (argument is None and name in READING_PRAGMAS):
            return apsw.SQLITE_OK
        if name == "data_version" and self.executing:  # full-text search asks for it by itself
            return apsw.SQLITE_OK
        if name in IGNORED_PRAGMAS:
            self.ignored = name
            return apsw.SQLITE_IGNORE
        self.touched = Touched.ANYTHING
        if name in CHANGING_PRAGMAS:
            return apsw.SQLITE_OK
        return self._deny(f"PRAGMA {name} is not allowed")

    def _deny(self, reason: str) -> int:
        self.touched = Touched.ANYTHING
        self.reason = reason
        return apsw.SQLITE_DENY


def _reach(action: int, name: str, schema: str | None) -> Touched:
    """What a changing action may reach, by an allow-list again. `name`: the first argument, mostly a table."""
    if action in _TRANSACTION_ACTIONS:
        return Touched.ROWS
    if action == apsw.SQLITE_ALTER_TABLE:
        return Touched.SCHEMA if name == "main" else Touched.ANYTHING
    if schema != "main":
        return Touched.ANYTHING
    if action in _SCHEMA_ACTIONS:
        return Touched.SCHEMA
    if action not in _ROW_ACTIONS:
        return Touched.ANYTHING
    table = name.lower()
    # SQLite keeps the rows of its own tables in memory with the schema: sqlite_master, sqlite_stat1.
    return Touched.SCHEMA if table.startswith("sqlite_") and table != "sqlite_sequence" else Touched.ROWS
