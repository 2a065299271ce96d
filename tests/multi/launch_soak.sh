#!/usr/bin/env bash
# A short soak; make soak runs a long one. P10.
exec bash "$GR_SOURCE/tests/launch/soak.sh" 10
