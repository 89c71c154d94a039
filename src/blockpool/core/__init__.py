"""The block pool itself. Knows no engine, reads no clock, environment or random source of its own."""
