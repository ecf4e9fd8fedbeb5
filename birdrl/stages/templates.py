"""Stage `templates`: check, hash and store the template databases.

Generated domains or a folder of the user's files. A file that cannot be used is listed with its reason and remedy in
rejected.json and on stderr and left out; the stage fails when none is usable.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tqdm import tqdm

from birdrl.errors import InputError
from birdrl.gym.domains import DOMAINS, EVALUATION_DOMAINS
from birdrl.gym.domains.build import build_domain, labels
from birdrl.gym.introspect import read_schema
from birdrl.gym.template_import import UnusableDatabase, copy_database, find_databases
from birdrl.gym.templates import TemplateWriter, open_template
from birdrl.params import TemplatesParams
from birdrl.stages.registry import StageContext


def run(ctx: StageContext) -> None:
    """Fill ctx.out with the store. Raises InputError when no database is usable."""
    build_templates(ctx.out, ctx.params.templates, ctx.seed)


def build_templates(folder: Path, params: TemplatesParams, seed: int) -> None:
    """Fill an existing, empty folder with a template store. Raises InputError when no database is usable."""
    writer = TemplateWriter(folder)
    if params.source == "generated":
        _generate(writer, seed, params)
    else:
        _import(writer, params)
    writer.finish()
    for db_id, reason in sorted(writer.rejected.items()):
        print(f"WARN {db_id}: {reason}", file=sys.stderr)
    print(f"templates: {len(writer.manifest)} databases, {len(writer.rejected)} rejected", file=sys.stderr)


def _generate(writer: TemplateWriter, seed: int, params: TemplatesParams) -> None:
    domains = {**DOMAINS, **EVALUATION_DOMAINS} if params.evaluation_domains else DOMAINS
    _check_skip(params, list(domains))
    wanted = {db_id: domain for db_id, domain in sorted(domains.items()) if db_id not in params.skip}
    for db_id, domain in tqdm(wanted.items(), desc="templates", unit="db"):
        scratch = writer.folder / f".{db_id}.part"
        build_domain(domain, scratch, seed=seed, scale=params.scale)
        _store(writer, db_id, scratch, "generated", labels(domain))


def _import(writer: TemplateWriter, params: TemplatesParams) -> None:
    if not params.directory:
        raise InputError("templates.directory: empty; name the folder of databases for source 'directory'")
    found, rejected = find_databases(Path(params.directory))
    if not found and not rejected:
        raise InputError(f"{params.directory}: no usable database; expected <db>/<db>.sqlite files in it")
    _check_skip(params, [*found, *rejected])
    writer.rejected |= {db_id: reason for db_id, reason in rejected.items() if db_id not in params.skip}
    wanted = {db_id: path for db_id, path in found.items() if db_id not in params.skip}
    for db_id, path in tqdm(wanted.items(), desc="templates", unit="db"):
        scratch = writer.folder / f".{db_id}.part"
        try:
            copy_database(path, scratch)
        except UnusableDatabase as error:
            writer.rejected[db_id] = str(error)
            scratch.unlink(missing_ok=True)
            continue
        _store(writer, db_id, scratch, path.name, {})


def _check_skip(params: TemplatesParams, known: list[str]) -> None:
    for db_id in params.skip:
        if db_id not in known:
            raise InputError(f"templates.skip: no database {db_id!r}; known are: {', '.join(sorted(known)[:20])}")


def _store(writer: TemplateWriter, db_id: str, scratch: Path, source: str, named: dict[str, dict[str, str]]) -> None:
    connection = open_template(scratch)
    try:
        schema = read_schema(connection, db_id, named)
    finally:
        connection.close()
    writer.add(db_id, scratch, schema, source)
