#pragma once

// Umbrella header of the turn pipeline: `#include <bub/bub.hpp>`.

#include <bub/channel.hpp>
#include <bub/envelope.hpp>
#include <bub/event_stream.hpp>
#include <bub/framework.hpp>
#include <bub/hook.hpp>
#include <bub/hooks.hpp>
#include <bub/onboarding_ui.hpp>
#include <bub/prompt.hpp>
#include <bub/turn_error.hpp>
#include <bub/turn_state.hpp>
