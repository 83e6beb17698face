"""A league of real grouped tables: fedrelax against the ways a statistician would usually take."""
