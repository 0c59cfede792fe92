// Precompiled for the modules that use the turn pipeline, and for the examples; see pch.hpp.
#pragma once

#include "pch_agent.hpp"

#include <bub/bub.hpp>
#include <bub/builtin/builtin.hpp>
#include <bub/tape/tape_checkpointer.hpp>
#include <bub/tape/tape_store.hpp>
#include <cubepi/core/log.hpp>
#include <cubepi/tracing/exporter.hpp>
#include <cubepi/tracing/meter.hpp>
#include <cubepi/tracing/metric_reader.hpp>
#include <cubepi/tracing/tracer.hpp>
