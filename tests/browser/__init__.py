"""Notebooks as people meet them: a Jupyter server, and Chromium with a page of it, driven by Playwright."""
