// Precompiled for all tests; see pch.hpp.
#pragma once

#include "pch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
