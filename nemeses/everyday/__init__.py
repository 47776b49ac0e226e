"""Everyday: the operations that an operator carries out at any time, while schema and data change."""
