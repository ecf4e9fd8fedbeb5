"""Public data formats, read and written field for field."""

from birdrl.formats.convert import Imported, export_row, import_file
from birdrl.formats.files import BrokenRow
from birdrl.formats.specs import FORMATS, Format, detect

__all__ = ["FORMATS", "BrokenRow", "Format", "Imported", "detect", "export_row", "import_file"]
