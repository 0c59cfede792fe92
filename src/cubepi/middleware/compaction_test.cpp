#include <cubepi/middleware/compaction.hpp>

#include <gtest/gtest.h>

#include <cubepi/agent/agent.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/provider/faux.hpp>
