"""The PostgreSQL engine: many processes on many machines, one database.

- **Writes are serial within an organization**, because operations read, check and write. A transaction that writes
  takes the organization's advisory lock before it reads any of its rows (`locks`), and keeps it until the commit. It
  uses READ COMMITTED, so under the lock it sees everything written to the organization before. Organizations do not
  wait for each other. Work across organizations (due jobs) waits only for its first lock and then skips organizations
  whose lock is taken, to avoid deadlocks.
- **Events are numbered in commit order.** They get their sequence, one per organization, under that lock, and the time
  of receipt is the server's (`clock`), so a bill never misses an event received before it was due.
- **Reads are snapshots** (REPEATABLE READ, READ ONLY) and never wait.
- **Rows hold the same texts as in SQLite**: instants, dates and decimals are texts that sort by value; JSON is text
  with its keys in the order they were sent. Amounts of cents are `numeric`, which has no maximum.
- **No statement may fail**, since that would abort the transaction. Unique rules are checked under the lock before
  writing, or by ON CONFLICT DO NOTHING.

SQL is written by hand, as for SQLite; the server prepares one statement per shape.
"""

from usagebill.storage.postgresql.engine import PostgresStore as PostgresStore
from usagebill.storage.postgresql.joining import JoinedTransaction as JoinedTransaction
