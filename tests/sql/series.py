"""Rows out of nothing: apsw's SQLite has no generate_series."""


def series(count: int) -> str:
    """A table expression with the column `value` = 1..count."""
    return (
        f"(WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n LIMIT {count}) SELECT value FROM n)"
    )
