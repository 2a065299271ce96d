#!/usr/bin/env bash
# One stop, however often and to whomever it is sent. A few ways; make soak has all. P10.
exec bash "$GR_SOURCE/tests/launch/stops.sh" 14
