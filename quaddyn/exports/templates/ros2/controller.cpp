// Controller plugin of ros2_control for QD_ROBOT, written by quaddyn QD_VERSION.
//
// Claims the effort interface of each joint; reads position and velocity of each joint and the IMU sensor of the
// parameter "imu".  Velocities are requested on ~/cmd_vel.  A fault of the safety layer damps the joints until the
// controller is deactivated and activated again.
#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "QD_NAME_drive.hpp"
#include "controller_interface/controller_interface.hpp"
#include "geometry_msgs/msg/twist.hpp"
#include "pluginlib/class_list_macros.hpp"
#include "rclcpp/rclcpp.hpp"
#include "rclcpp_lifecycle/state.hpp"

namespace QD_NAME
{

namespace
{

// Returns the value of a state interface, whose access differs between versions of ros2_control.
template<class Interface>
auto read_value(const Interface & interface, int) -> decltype(interface.get_optional().value_or(0.0))
{
  return interface.get_optional().value_or(nan);
}

template<class Interface>
double read_value(const Interface & interface, long)
{
  return interface.get_value();
}

// Finds an interface by its name; returns false if there is none.
template<class Interfaces>
bool find(const Interfaces & interfaces, const std::string & name, std::size_t & index)
{
  for (index = 0; index < interfaces.size(); index++) {
    if (interfaces[index].get_name() == name) {
      return true;
    }
  }
  return false;
}

}  // namespace

class QD_CLASS : public controller_interface::ControllerInterface
{
public:
  controller_interface::CallbackReturn on_init() override
  {
    try {
      auto_declare<std::string>("imu", "imu");
      auto_declare<double>("command_timeout", 0.5);
    } catch (const std::exception & error) {
      RCLCPP_ERROR(get_node()->get_logger(), "parameters cannot be declared: %s", error.what());
      return controller_interface::CallbackReturn::ERROR;
    }
    return controller_interface::CallbackReturn::SUCCESS;
  }

  controller_interface::InterfaceConfiguration command_interface_configuration() const override
  {
    controller_interface::InterfaceConfiguration out;
    out.type = controller_interface::interface_configuration_type::INDIVIDUAL;
    for (int i = 0; i < n_joints; i++) {
      out.names.push_back(std::string(joint_names[i]) + "/effort");
    }
    return out;
  }

  controller_interface::InterfaceConfiguration state_interface_configuration() const override
  {
    controller_interface::InterfaceConfiguration out;
    out.type = controller_interface::interface_configuration_type::INDIVIDUAL;
    out.names = state_names();
    return out;
  }

  controller_interface::CallbackReturn on_configure(const rclcpp_lifecycle::State &) override
  {
    imu_ = get_node()->get_parameter("imu").as_string();
    timeout_ = get_node()->get_parameter("command_timeout").as_double();
    const double rate = get_update_rate();
    if (rate > 0.0 && std::abs(rate * period - 1.0) > 1e-3) {
      RCLCPP_ERROR(
        get_node()->get_logger(), "update_rate: expected %g Hz, for which the controller was exported, got %g Hz",
        1.0 / period, rate);
      return controller_interface::CallbackReturn::ERROR;
    }
    subscription_ = get_node()->create_subscription<geometry_msgs::msg::Twist>(
      "~/cmd_vel", rclcpp::SystemDefaultsQoS(), [this](const geometry_msgs::msg::Twist::SharedPtr message) {
        request_.set(message->linear.x, message->linear.y, message->angular.z, time_);
      });
    return controller_interface::CallbackReturn::SUCCESS;
  }

  controller_interface::CallbackReturn on_activate(const rclcpp_lifecycle::State &) override
  {
    const std::vector<std::string> states = state_names();
    state_index_.resize(states.size());
    for (std::size_t i = 0; i < states.size(); i++) {
      if (!find(state_interfaces_, states[i], state_index_[i])) {
        RCLCPP_ERROR(get_node()->get_logger(), "the state interface %s is missing", states[i].c_str());
        return controller_interface::CallbackReturn::ERROR;
      }
    }
    const std::vector<std::string> commands = command_interface_configuration().names;
    command_index_.resize(commands.size());
    for (std::size_t i = 0; i < commands.size(); i++) {
      if (!find(command_interfaces_, commands[i], command_index_[i])) {
        RCLCPP_ERROR(get_node()->get_logger(), "the command interface %s is missing", commands[i].c_str());
        return controller_interface::CallbackReturn::ERROR;
      }
    }
    drive_.reset();
    fault_ = 0;
    return controller_interface::CallbackReturn::SUCCESS;
  }

  controller_interface::CallbackReturn on_deactivate(const rclcpp_lifecycle::State &) override
  {
    write(std::array<double, n_joints>{});
    return controller_interface::CallbackReturn::SUCCESS;
  }

  controller_interface::return_type update(const rclcpp::Time & time, const rclcpp::Duration &) override
  {
    Reading reading;
    reading.time = time.seconds();
    time_ = reading.time;
    const auto value = [this](std::size_t i) {return read_value(state_interfaces_[state_index_[i]], 0);};
    for (int i = 0; i < n_joints; i++) {
      reading.position[i] = value(2 * i);
      reading.velocity[i] = value(2 * i + 1);
    }
    for (int i = 0; i < 3; i++) {
      reading.gyro[i] = value(2 * n_joints + i);
      reading.accelerometer[i] = value(2 * n_joints + 3 + i);
    }
    std::array<double, n_joints> effort;
    const int fault = drive_.tick(reading, reading.time, request_.get(reading.time, timeout_), effort);
    write(effort);
    if (fault != fault_) {
      fault_ = fault;
      RCLCPP_ERROR(get_node()->get_logger(), "fault: %s; the joints are damped", drive_.fault_name());
    }
    return controller_interface::return_type::OK;
  }

private:
  // Names of the state interfaces: position and velocity of each joint, angular velocity and acceleration of the IMU.
  std::vector<std::string> state_names() const
  {
    std::vector<std::string> out;
    for (int i = 0; i < n_joints; i++) {
      out.push_back(std::string(joint_names[i]) + "/position");
      out.push_back(std::string(joint_names[i]) + "/velocity");
    }
    for (const char * quantity : {"angular_velocity", "linear_acceleration"}) {
      for (const char * axis : {".x", ".y", ".z"}) {
        out.push_back(imu_ + "/" + quantity + axis);
      }
    }
    return out;
  }

  void write(const std::array<double, n_joints> & effort)
  {
    for (std::size_t i = 0; i < command_index_.size(); i++) {
      (void)command_interfaces_[command_index_[i]].set_value(effort[i]);
    }
  }

  Drive drive_;
  VelocityRequest request_;
  std::atomic<double> time_{0.0};
  std::string imu_ = "imu";
  double timeout_ = 0.5;
  int fault_ = 0;
  std::vector<std::size_t> state_index_, command_index_;
  rclcpp::Subscription<geometry_msgs::msg::Twist>::SharedPtr subscription_;
};

}  // namespace QD_NAME

PLUGINLIB_EXPORT_CLASS(QD_NAME::QD_CLASS, controller_interface::ControllerInterface)
