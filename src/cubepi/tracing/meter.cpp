#include <cubepi/tracing/meter.hpp>

#include <utility>

#include <cubepi/tracing/prometheus.hpp>
#include <cubepi/tracing/recorder/agent_meter.hpp>

namespace cubepi {

namespace {
constexpr std::chrono::seconds destructor_limit{5};
}

MeterAttachment::MeterAttachment(std::shared_ptr<detail::AgentMeter> recorder)
    : recorder_(std::move(recorder)) {}

MeterAttachment::MeterAttachment(MeterAttachment&&) noexcept = default;

MeterAttachment& MeterAttachment::operator=(MeterAttachment&& other) noexcept {
    if (this == &other) return *this;
    detach();
    recorder_ = std::move(other.recorder_);
    return *this;
}

MeterAttachment::~MeterAttachment() { detach(); }

void MeterAttachment::detach() noexcept {
    if (recorder_) recorder_->detach();
    recorder_.reset();
}

Meter::Meter(MeterOptions options) : core_(detail::MeterCore::create(std::move(options))) {}

Meter::~Meter() { (void)shutdown(destructor_limit); }

MeterAttachment Meter::attach(Agent& agent) {
    return MeterAttachment(detail::AgentMeter::attach(core_, agent));
}

MetricRegistry& Meter::registry() noexcept { return *core_->registry(); }

MetricSnapshot Meter::snapshot() const { return core_->registry()->snapshot(); }

std::string Meter::prometheus_text() const {
    return cubepi::prometheus_text(snapshot(), *core_->resource());
}

bool Meter::force_flush(std::chrono::milliseconds limit) {
    return core_->reader().force_flush(limit);
}

bool Meter::shutdown(std::chrono::milliseconds limit) { return core_->reader().shutdown(limit); }

}  // namespace cubepi
