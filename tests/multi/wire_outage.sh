#!/usr/bin/env bash
# Outages between hosts, short ones; make soak has those of 12 s and 60 s. P1 P2 P10.
exec bash "$GR_SOURCE/tests/launch/outage.sh"
