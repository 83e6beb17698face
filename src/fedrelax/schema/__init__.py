"""What a table's columns mean, agreed on by all nodes before the first round.

Columns hold numbers, true/false, categories, dates or texts, with gaps. `Schema` knows their names, kinds,
categories and scales, turns tables into rows and rows into what a model sees, and is saved as a small
JSON file.
"""

from fedrelax.schema.column import Column
from fedrelax.schema.inferring import schema_of
from fedrelax.schema.preparation import Preparation
from fedrelax.schema.schema import Schema

__all__ = ["Column", "Preparation", "Schema", "schema_of"]
