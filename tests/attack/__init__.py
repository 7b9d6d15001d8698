"""The API under attack: requests made from the OpenAPI document that it serves, each answer held against it.

`python -m tests.attack --requests 100000` is a long run; the tests make a few of each operation.
"""
