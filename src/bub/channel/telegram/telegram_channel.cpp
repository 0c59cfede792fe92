#include <bub/channel/telegram_channel.hpp>

#include <utility>

#include <bub/channel/telegram/outbox.hpp>
#include <bub/channel/telegram/update_receiver.hpp>
#include <bub/turn_error.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/outcome.hpp>
#include <cubepi/core/task_scope.hpp>

namespace bub {

namespace {

telegram::ApiOptions api_options(const TelegramChannelOptions& options) {
    telegram::ApiOptions api;
    api.token = options.token;
    api.base_url = options.api_url;
    api.runtime = options.runtime;
    return api;
}

TelegramChannelOptions completed(TelegramChannelOptions options) {
    if (!options.runtime) options.runtime = cubepi::Runtime::standard();
    return options;
}

/// Neither a turn nor an answer depends on how it is shown.
template <class Show>
void quietly(Show show) noexcept {
    try {
        show();
    } catch (...) {
    }
}

}  // namespace

struct TelegramChannel::State {
    State(const TelegramChannelOptions& options, MessageHandler handler)
        : api(std::make_shared<const telegram::TelegramApi>(api_options(options))),
          cards(std::make_shared<telegram::SentCards>()),
          receiver(
              std::make_shared<telegram::UpdateReceiver>(options, std::move(handler), api, cards)),
          outbox(std::make_shared<telegram::Outbox>(options, api, cards)),
          warn(options.on_warning) {}

    const std::string name = "telegram";
    const std::shared_ptr<const telegram::TelegramApi> api;
    const std::shared_ptr<telegram::SentCards> cards;
    const std::shared_ptr<telegram::UpdateReceiver> receiver;
    const std::shared_ptr<telegram::Outbox> outbox;
    const WarningHandler warn;
    std::unique_ptr<cubepi::BackgroundScope> work;
};

TelegramChannel::TelegramChannel(TelegramChannelOptions options, MessageHandler handler)
    : state_(std::make_shared<State>(completed(std::move(options)), std::move(handler))) {}

TelegramChannel::~TelegramChannel() = default;

const std::string& TelegramChannel::name() const noexcept { return state_->name; }

std::uint16_t TelegramChannel::port() const noexcept { return state_->receiver->port(); }

Task<> TelegramChannel::prepare() {
    const std::exception_ptr failure = co_await state_->receiver->check_token();
    if (failure) std::rethrow_exception(failure);
}

Task<> TelegramChannel::start(std::stop_token stopping) {
    (void)stopping;
    const cubepi::Executor executor = co_await cubepi::this_executor;
    const std::exception_ptr failure = co_await state_->receiver->check_token();
    if (failure && state_->warn) state_->warn("telegram: not reachable yet: " + describe(failure));
    state_->work = std::make_unique<cubepi::BackgroundScope>(
        executor, [warn = state_->warn](const std::exception_ptr& failure) {
            if (warn) warn("telegram: " + cubepi::exception_text(failure));
        });
    state_->outbox->start(*state_->work);
    state_->receiver->start(*state_->work);
}

Task<> TelegramChannel::stop() {
    if (!state_->work) co_return;
    Task<> closing = state_->work->close();
    const cubepi::Outcome<> closed = co_await cubepi::outcome_of(std::move(closing));
    co_await state_->receiver->stop();
    closed.rethrow();
}

Task<> TelegramChannel::send(Envelope message) { return send_tracked(std::move(message), nullptr); }

Task<> TelegramChannel::send_tracked(Envelope message, std::shared_ptr<SendProgress> progress) {
    return state_->outbox->send(std::move(message), std::move(progress));
}

EventStream TelegramChannel::stream_events(const Envelope& message, EventStream stream) {
    return state_->outbox->follow(message, std::move(stream));
}

Task<std::optional<AdmitDecision>> TelegramChannel::admit_message(std::string session_id,
                                                                  const Envelope& message,
                                                                  TurnSnapshot turn) {
    (void)session_id;
    (void)turn;
    std::optional<AdmitDecision> decision;
    // A stored message of a user who is not listed any more.
    if (!state_->receiver->allows(message)) decision.emplace().action = AdmitAction::drop;
    co_return decision;
}

void TelegramChannel::restore(Envelope& message) { state_->receiver->restore(message); }

void TelegramChannel::begin_turn(const Envelope& message) noexcept {
    quietly([&] { state_->outbox->begin_turn(message); });
}

void TelegramChannel::show_outcome(const Envelope& message, const AcceptedAnswer& answer) noexcept {
    quietly([&] { state_->outbox->show_outcome(message, answer); });
}

void TelegramChannel::drain() noexcept {
    quietly([&] { state_->receiver->drain(); });
}

std::string TelegramChannel::problem() const { return state_->receiver->problem(); }

void TelegramChannel::end_turn(const Envelope& message, std::exception_ptr failure) noexcept {
    quietly([&] { state_->outbox->end_turn(message, failure != nullptr); });
}

}  // namespace bub
