"""PostgreSQL: migrations, records to rows and back, guards, transactions, clocks."""
