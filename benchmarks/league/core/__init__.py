"""The choosing core that the league measures: not part of the library yet."""
