"""The values that cross the public surface: slotted dataclasses without IO and without pydantic."""
