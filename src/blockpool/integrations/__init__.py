"""Bridges to outside systems: one module each, imported only by who asks for it."""
