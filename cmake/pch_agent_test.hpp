// Precompiled for the tests of the modules that use `agent`; see pch.hpp.
#pragma once

#include "pch_test.hpp"

#include <cubepi/agent/agent.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/provider/faux.hpp>
