// Precompiled for the tests of the modules that use `agent`; see pch.hpp.
#pragma once

#include "pch_test.hpp"

#include "pch_agent.hpp"

#include <cubepi/checkpoint/memory_checkpointer.hpp>
#include <cubepi/testing/manual_clock.hpp>
