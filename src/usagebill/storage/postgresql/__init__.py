"""The PostgreSQL engine: many processes on many machines, one database.

What it stands on:

- **Writes are serial within an organization**, as operations need it (they read, check and write). A transaction that
  writes takes the organization's advisory lock before it reads anything of it (`locks`), and keeps it until the commit.
  It reads committed rows, so that under the lock it sees all that was ever written to the organization. Transactions
  of different organizations run beside each other. Work across organizations (due jobs) waits for the first lock that
  it needs only, and leaves alone what another holds, so that nobody waits in a circle.
- **The order of arrival is the order of commits.** Events get their sequence, organization by organization, under that
  lock, and the instant that they were received at is read from the server's clock (`clock`), so that a bill that was
  due before them never misses one that came before it.
- **Reads are snapshots** (repeatable read, read only) and never wait.
- **Rows hold the same texts as in SQLite**: instants, dates and decimals are texts that sort as what they say, JSON is
  text with its keys in the order they were sent. Amounts of cents are `numeric`, without a largest one.
- **No error within a transaction**: a statement that failed would end it. What breaks a unique rule is looked up under
  the lock, or written with ON CONFLICT DO NOTHING.

SQL is written by hand, as for SQLite: a text a shape, prepared by the server.
"""

from usagebill.storage.postgresql.engine import PostgresStore
from usagebill.storage.postgresql.joining import JoinedTransaction

__all__ = ["JoinedTransaction", "PostgresStore"]
