#include <cubepi/agent/transcript.hpp>
