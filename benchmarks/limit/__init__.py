"""How far the pool is from an array pool in C++, and from nothing at all."""
