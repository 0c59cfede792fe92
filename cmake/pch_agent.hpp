// Precompiled for the modules that use `agent`, most of whose files include it; see pch.hpp.
#pragma once

#include "pch.hpp"

#include <cubepi/agent/agent.hpp>
#include <cubepi/core/outcome.hpp>
