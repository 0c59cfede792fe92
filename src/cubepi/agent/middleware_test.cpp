#include <cubepi/agent/middleware.hpp>
