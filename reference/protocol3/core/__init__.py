"""Pure decisions: records and an instant in, new records and effects out. No clock, no I/O, no identifier made here."""
