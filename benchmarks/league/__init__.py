"""A league of real grouped tables: fedrelax against a statistician's usual methods."""
