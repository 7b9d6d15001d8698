"""What a process has before it knows any database: settings, ids, logs, time zones, JSON."""
