"""Curves: the hits at every size of the pool from one pass over a trace."""
