"""Offset commits at scale: the vectorised decoder, partial marks of one batch, and marks over all of bronze."""
