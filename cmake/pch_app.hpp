// Precompiled for the program; see pch.hpp.
#pragma once

#include "pch_bub.hpp"

#include <CLI/CLI.hpp>
#include <cubepi/checkpoint/sqlite_checkpointer.hpp>
#include <cubepi/tracing/otel_environment.hpp>
