"""What a template database looks like: tables, columns, keys, and the words people use for them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from birdrl.files import canonical_json, sha256_text


class Column(BaseModel):
    model_config = ConfigDict(frozen=True)

    name: str
    type: str = Field(description="Declared type, upper case; empty when none was declared.")
    primary_key: bool = False
    not_null: bool = False
    label: str = Field(description="Words a person would use, for example 'unit price' for unit_price.")
    examples: list[str] = Field(default_factory=list, description="Up to two distinct non-null values, as text.")


class ForeignKey(BaseModel):
    model_config = ConfigDict(frozen=True)

    column: str
    ref_table: str
    ref_column: str


class Table(BaseModel):
    model_config = ConfigDict(frozen=True)

    name: str
    label: str
    rows: int
    columns: list[Column]
    foreign_keys: list[ForeignKey] = Field(default_factory=list)

    def column(self, name: str) -> Column | None:
        """The column of that name (case-insensitive), or None."""
        return next((c for c in self.columns if c.name.lower() == name.lower()), None)


class Schema(BaseModel):
    model_config = ConfigDict(frozen=True)

    db_id: str
    tables: list[Table]

    def table(self, name: str) -> Table | None:
        """The table of that name (case-insensitive), or None."""
        return next((t for t in self.tables if t.name.lower() == name.lower()), None)

    def fingerprint(self) -> str:
        """SHA-256 of tables, columns and keys, whatever their order and the case of their names; rows do not matter."""
        tables = sorted(
            [
                table.name.casefold(),
                sorted([column.name.casefold(), column.type, column.primary_key] for column in table.columns),
                sorted(
                    [key.column.casefold(), key.ref_table.casefold(), key.ref_column.casefold()]
                    for key in table.foreign_keys
                ),
            ]
            for table in self.tables
        )
        return sha256_text(canonical_json(tables))
