"""Writes varied, realistic SELECTs over a template: a source (tables and joins), conditions, and a shape."""
