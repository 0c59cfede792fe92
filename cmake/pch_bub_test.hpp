// Precompiled for the tests of the modules that use the turn pipeline; see pch.hpp.
#pragma once

#include "pch_agent_test.hpp"

#include "pch_bub.hpp"
