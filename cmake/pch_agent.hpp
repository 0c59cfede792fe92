// Precompiled for the modules that use `agent`, most of whose files include it; see pch.hpp.
#pragma once

#include "pch.hpp"

#include <cubepi/agent/question_store.hpp>
#include <cubepi/core/task_scope.hpp>
#include <cubepi/cubepi.hpp>
