"""The console: pages for those who price, sell and support."""

from usagebill.console.app import console_app as console_app
