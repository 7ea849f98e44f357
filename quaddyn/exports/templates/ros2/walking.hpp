  // Time for which the robot stands before the first step [s].
  static constexpr double standing_time = 1.0;
  // Index among the feet of the estimator of each foot of the walker.
  static constexpr int foot_index[4] = {QD_FOOTINDEX};

  // Memory of the controller.
  QD_NAME_walker walker_{};

  void reset_controller()
  {
    QD_NAME_walker_initialize(&walker_);
  }

  // Stance feet are those on which the last tick plans load.
  std::array<unsigned char, n_feet> stance_feet() const
  {
    std::array<unsigned char, n_feet> standing{};
    for (int foot = 0; foot < 4; foot++) {
      standing[foot_index[foot]] = QD_NAME_walker_carries(&walker_, foot) != 0;
    }
    return standing;
  }

  void compute_torques(const double * q, const double * v, const std::array<double, 3> & velocity, double * tau)
  {
    static constexpr double zero[3] = {0.0, 0.0, 0.0};
    const bool stands = last_time_ - start_time_ < standing_time;
    QD_NAME_walker_tick(&walker_, q, v, stands ? zero : velocity.data(), nullptr, tau);
  }
