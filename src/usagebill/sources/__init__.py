"""Sources of events besides HTTP: files, watched directories, Kafka and NATS JetStream.

Each parses messages or lines into `Arrival`s (`payloads`). `Intake` stores them in one transaction: it ingests events,
lists the refused ones and records the source's progress. Messages are acknowledged after that, so that a crash loses
nothing; events delivered twice are recognized by their transaction ids.
"""
