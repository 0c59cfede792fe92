#pragma once

// Everything a program that runs agents needs. Stores come on their own: <cubepi/checkpoint/sqlite_checkpointer.hpp>.

#include <cubepi/agent/agent.hpp>
#include <cubepi/agent/blocking.hpp>
#include <cubepi/agent/loop.hpp>
#include <cubepi/agent/print_text.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/timeout.hpp>
#include <cubepi/core/version.hpp>
#include <cubepi/provider/anthropic.hpp>
#include <cubepi/provider/fallback.hpp>
#include <cubepi/provider/faux.hpp>
#include <cubepi/provider/gemini.hpp>
#include <cubepi/provider/openai.hpp>
#include <cubepi/provider/openai_responses.hpp>
