// State estimator, QD_LAW and safety layer of QD_ROBOT as one class, written by quaddyn QD_VERSION.
// SI units, radians; joints in the order of `joint_names`.  No allocation and no locks after construction.  A process may
// have several objects; each is used by one thread at a time.
#ifndef QD_UPPER_DRIVE_HPP_
#define QD_UPPER_DRIVE_HPP_

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>

#include "QD_NAME_drive.h"

namespace QD_NAME
{

constexpr int n_joints = QD_UPPER_SAFETY_NU;
// Period of a tick [s].
constexpr double period = QD_UPPER_SAFETY_PERIOD;
constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
// Largest torque of each joint [N m].
constexpr std::array<double, n_joints> effort_limits = {QD_LIMITS};
inline const char * const * joint_names = QD_NAME_safety_joints;

// Reading of all sensors.
struct Reading
{
  double time = nan;  // time stamp [s]
  std::array<double, n_joints> position = filled(nan);  // [rad]
  std::array<double, n_joints> velocity = filled(nan);  // [rad/s]
  std::array<double, n_joints> torque = filled(nan);  // [N m]; NaN: not measured
  std::array<double, 3> gyro = {nan, nan, nan};  // angular velocity in IMU axes [rad/s]
  std::array<double, 3> accelerometer = {nan, nan, nan};  // specific force in IMU axes [m/s^2]

  static constexpr std::array<double, n_joints> filled(double value)
  {
    std::array<double, n_joints> out{};
    for (auto & each : out) {
      each = value;
    }
    return out;
  }

  bool complete() const
  {
    const auto finite = [](const auto & values) {
        return std::all_of(values.begin(), values.end(), [](double x) {return std::isfinite(x);});
      };
    return std::isfinite(time) && finite(position) && finite(velocity) && finite(gyro) && finite(accelerometer);
  }
};

// Requested forward and leftward speed [m/s] and yaw rate [rad/s], set and read by different threads.
class VelocityRequest
{
public:
  void set(double forward, double left, double turn, double time)
  {
    forward_ = forward;
    left_ = left;
    turn_ = turn;
    time_ = time;
  }

  // Returns the last request, or zero if it is older than a timeout [s], or if the clock was set back since.
  std::array<double, 3> get(double time, double timeout) const
  {
    const double age = time - time_;
    if (!(age >= 0.0 && age <= timeout)) {
      return {0.0, 0.0, 0.0};
    }
    return {forward_, left_, turn_};
  }

private:
  std::atomic<double> forward_{0.0}, left_{0.0}, turn_{0.0}, time_{-infinity};
};

class Drive
{
public:
  // Clears the state and a latched fault; the next complete reading starts the robot.
  void reset()
  {
    QD_NAME_drive_initialize(&drive_);
    running_ = false;
    fault_ = 0;
  }

  // Computes the torques of one tick; they are zero before the first complete reading.
  // now: the caller's clock [s]; velocity: requested velocity.  Returns the code of the latched fault, 0 without one.
  int tick(
    const Reading & reading, double now, const std::array<double, 3> & velocity,
    std::array<double, n_joints> & effort)
  {
    effort.fill(0.0);
    if (!running_ && !reading.complete()) {
      return fault_;
    }
    const QD_NAME_safety_reading sensors = {
      reading.position.data(), reading.velocity.data(), reading.gyro.data(), reading.accelerometer.data(),
      reading.torque.data(), nullptr, nullptr};
    if (!running_) {
      running_ = true;
      QD_NAME_drive_start(&drive_, &sensors, reading.time);
    }
    QD_NAME_safety_command command{};
    if (reading.complete()) {
      QD_NAME_drive_step(&drive_, &sensors, reading.time, velocity.data(), command.tau);
    }
    fault_ = QD_NAME_safety_tick_at(&drive_.safety, &sensors, &command, reading.time, now, 0);
    for (int i = 0; i < n_joints; i++) {
      // Effort interfaces have no gains: the law of the motors is computed here, with the newest reading.
      double tau = command.tau[i];
      if (std::isfinite(reading.position[i]) && std::isfinite(reading.velocity[i])) {
        tau += command.stiffness[i] * (command.position[i] - reading.position[i]) +
          command.damping[i] * (command.velocity[i] - reading.velocity[i]);
      }
      effort[i] = std::clamp(tau, -effort_limits[i], effort_limits[i]);
    }
    return fault_;
  }

  // Name of the latched fault; "" without one.
  const char * fault_name() const
  {
    return fault_ == 0 ? "" : QD_NAME_safety_name(fault_);
  }

private:
  QD_NAME_drive drive_{};
  bool running_ = false;
  int fault_ = 0;
};

}  // namespace QD_NAME

#endif  // QD_UPPER_DRIVE_HPP_
