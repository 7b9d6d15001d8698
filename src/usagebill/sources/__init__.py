"""Sources: where events come from besides HTTP. Files, directories that are watched, Kafka and NATS JetStream.

Each reads messages or lines, makes `Arrival`s of them (`payloads`), and has them taken in one transaction (`Intake`),
which ingests events, lists what is none as refused and notes how far the source was taken. Only then does it tell the
broker, so that a crash loses nothing; what comes twice is known by its transaction id.
"""
