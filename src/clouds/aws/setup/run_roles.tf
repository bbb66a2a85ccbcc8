variable "role_per_run" {
  type        = bool
  default     = false
  description = "Let whoever launches make a role for each run, bounded by the policy NAME-run, so that machines of one run write to no other."
}

# With `role_per_run` each run has a role of its own: machines of one run write to no other, and read the secrets of their run alone. Whoever
# launches tags the role with the run, its place in the bucket and its secrets; this policy, which is the role's boundary as well, reads the
# tags. Machines of a sweep write to its runs too, whose names are its own and three digits. What is launched elsewhere than in the bucket of this
# setup, with more secrets, or as a sweep of over a thousand runs, has the role of machines above.
resource "aws_iam_policy" "run" {
  count = var.role_per_run ? 1 : 0
  name  = "${var.name}-run"
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect   = "Allow"
        Action   = "s3:GetObject"
        Resource = "${aws_s3_bucket.runs.arn}/*"
      },
      {
        Effect = "Allow"
        Action = ["s3:PutObject", "s3:AbortMultipartUpload"]
        Resource = [
          "${aws_s3_bucket.runs.arn}/$${aws:PrincipalTag/gpuplan-prefix}/epochs/*",
          "${aws_s3_bucket.runs.arn}/$${aws:PrincipalTag/gpuplan-prefix}/manifests/*",
          "${aws_s3_bucket.runs.arn}/$${aws:PrincipalTag/gpuplan-prefix}/data/*",
          "${aws_s3_bucket.runs.arn}/$${aws:PrincipalTag/gpuplan-prefix}/nodes/*",
          "${aws_s3_bucket.runs.arn}/$${aws:PrincipalTag/gpuplan-prefix}/start/*",
          "${aws_s3_bucket.runs.arn}/$${aws:PrincipalTag/gpuplan-prefix}/wanted/*",
          "${aws_s3_bucket.runs.arn}/$${aws:PrincipalTag/gpuplan-prefix}/parts/*",
          "${aws_s3_bucket.runs.arn}/$${aws:PrincipalTag/gpuplan-prefix}/leaving/*",
          "${aws_s3_bucket.runs.arn}/$${aws:PrincipalTag/gpuplan-prefix}/status/*",
          "${aws_s3_bucket.runs.arn}/$${aws:PrincipalTag/gpuplan-prefix}/billed/*",
          "${aws_s3_bucket.runs.arn}/$${aws:PrincipalTag/gpuplan-prefix}/logs/*",
          "${aws_s3_bucket.runs.arn}/$${aws:PrincipalTag/gpuplan-prefix}/events/*",
          "${aws_s3_bucket.runs.arn}/$${aws:PrincipalTag/gpuplan-prefix}/dataset.json",
          "${aws_s3_bucket.runs.arn}/$${aws:PrincipalTag/gpuplan-prefix}/sweep.json",
          "${aws_s3_bucket.runs.arn}/$${aws:PrincipalTag/gpuplan-prefix}/result.json",
          "${aws_s3_bucket.runs.arn}/$${aws:PrincipalTag/gpuplan-within}???/epochs/*",
          "${aws_s3_bucket.runs.arn}/$${aws:PrincipalTag/gpuplan-within}???/manifests/*",
          "${aws_s3_bucket.runs.arn}/$${aws:PrincipalTag/gpuplan-within}???/data/*",
          "${aws_s3_bucket.runs.arn}/$${aws:PrincipalTag/gpuplan-within}???/nodes/*",
          "${aws_s3_bucket.runs.arn}/$${aws:PrincipalTag/gpuplan-within}???/start/*",
          "${aws_s3_bucket.runs.arn}/$${aws:PrincipalTag/gpuplan-within}???/wanted/*",
          "${aws_s3_bucket.runs.arn}/$${aws:PrincipalTag/gpuplan-within}???/parts/*",
          "${aws_s3_bucket.runs.arn}/$${aws:PrincipalTag/gpuplan-within}???/leaving/*",
          "${aws_s3_bucket.runs.arn}/$${aws:PrincipalTag/gpuplan-within}???/status/*",
          "${aws_s3_bucket.runs.arn}/$${aws:PrincipalTag/gpuplan-within}???/billed/*",
          "${aws_s3_bucket.runs.arn}/$${aws:PrincipalTag/gpuplan-within}???/logs/*",
          "${aws_s3_bucket.runs.arn}/$${aws:PrincipalTag/gpuplan-within}???/events/*",
          "${aws_s3_bucket.runs.arn}/$${aws:PrincipalTag/gpuplan-within}???/dataset.json",
          "${aws_s3_bucket.runs.arn}/$${aws:PrincipalTag/gpuplan-within}???/result.json"
        ]
      },
      {
        # What is no longer kept.
        Effect = "Allow"
        Action = "s3:DeleteObject"
        Resource = [
          "${aws_s3_bucket.runs.arn}/$${aws:PrincipalTag/gpuplan-prefix}/manifests/*",
          "${aws_s3_bucket.runs.arn}/$${aws:PrincipalTag/gpuplan-prefix}/data/*",
          "${aws_s3_bucket.runs.arn}/$${aws:PrincipalTag/gpuplan-prefix}/wanted/*",
          "${aws_s3_bucket.runs.arn}/$${aws:PrincipalTag/gpuplan-prefix}/parts/*",
          "${aws_s3_bucket.runs.arn}/$${aws:PrincipalTag/gpuplan-within}???/manifests/*",
          "${aws_s3_bucket.runs.arn}/$${aws:PrincipalTag/gpuplan-within}???/data/*",
          "${aws_s3_bucket.runs.arn}/$${aws:PrincipalTag/gpuplan-within}???/wanted/*",
          "${aws_s3_bucket.runs.arn}/$${aws:PrincipalTag/gpuplan-within}???/parts/*"
        ]
      },
      {
        Effect   = "Allow"
        Action   = "s3:ListBucket"
        Resource = aws_s3_bucket.runs.arn
      },
      {
        # What `--secret` names. The end of the name is the cloud's own.
        Effect = "Allow"
        Action = "secretsmanager:GetSecretValue"
        Resource = [
          "arn:aws:secretsmanager:*:${data.aws_caller_identity.me.account_id}:secret:${var.name}/$${aws:PrincipalTag/gpuplan-secret-1}-??????",
          "arn:aws:secretsmanager:*:${data.aws_caller_identity.me.account_id}:secret:${var.name}/$${aws:PrincipalTag/gpuplan-secret-2}-??????",
          "arn:aws:secretsmanager:*:${data.aws_caller_identity.me.account_id}:secret:${var.name}/$${aws:PrincipalTag/gpuplan-secret-3}-??????",
          "arn:aws:secretsmanager:*:${data.aws_caller_identity.me.account_id}:secret:${var.name}/$${aws:PrincipalTag/gpuplan-secret-4}-??????",
          "arn:aws:secretsmanager:*:${data.aws_caller_identity.me.account_id}:secret:${var.name}/$${aws:PrincipalTag/gpuplan-secret-5}-??????"
        ]
      },
      {
        # Itself: the machine that the keys were given to.
        Effect    = "Allow"
        Action    = "ec2:TerminateInstances"
        Resource  = "arn:aws:ec2:*:${data.aws_caller_identity.me.account_id}:instance/*"
        Condition = { ArnLike = { "ec2:SourceInstanceARN" = "arn:aws:ec2:*:*:instance/$${ec2:InstanceID}" } }
      },
      {
        # The last machine of a run that a fleet keeps alive ends the fleet.
        Effect   = "Allow"
        Action   = "ec2:DescribeTags"
        Resource = "*"
      },
      {
        Effect    = "Allow"
        Action    = "ec2:DeleteFleets"
        Resource  = "arn:aws:ec2:*:*:fleet/*"
        Condition = { StringEquals = { "aws:ResourceTag/gpuplan:run" = "$${aws:PrincipalTag/gpuplan-run}" } }
      },
      {
        # `gpuplan ssh` comes in through Session Manager.
        Effect = "Allow"
        Action = [
          "ssm:UpdateInstanceInformation",
          "ssmmessages:CreateControlChannel",
          "ssmmessages:CreateDataChannel",
          "ssmmessages:OpenControlChannel",
          "ssmmessages:OpenDataChannel"
        ]
        Resource = "*"
      }
    ]
  })
}

# Give it to those who launch, beside the policy `launch`. It makes roles below /gpuplan/ alone, each with the policy above as its boundary, and
# gives them no other: nobody comes by more than that policy allows.
resource "aws_iam_policy" "run_roles" {
  count = var.role_per_run ? 1 : 0
  name  = "${var.name}-run-roles"
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid       = "MakeRolesWithinTheBoundary"
        Effect    = "Allow"
        Action    = "iam:CreateRole"
        Resource  = "arn:aws:iam::${data.aws_caller_identity.me.account_id}:role/gpuplan/*"
        Condition = { ArnEquals = { "iam:PermissionsBoundary" = "arn:aws:iam::${data.aws_caller_identity.me.account_id}:policy/${var.name}-run" } }
      },
      {
        # As they are made: what has tags already keeps them, so a role that machines have is not made that of another run.
        Sid      = "TagThem"
        Effect   = "Allow"
        Action   = "iam:TagRole"
        Resource = "arn:aws:iam::${data.aws_caller_identity.me.account_id}:role/gpuplan/*"
        Condition = {
          StringEqualsIfExists = {
            "aws:ResourceTag/gpuplan-run"      = "$${aws:RequestTag/gpuplan-run}"
            "aws:ResourceTag/gpuplan-prefix"   = "$${aws:RequestTag/gpuplan-prefix}"
            "aws:ResourceTag/gpuplan-within"   = "$${aws:RequestTag/gpuplan-within}"
            "aws:ResourceTag/gpuplan-secret-1" = "$${aws:RequestTag/gpuplan-secret-1}"
            "aws:ResourceTag/gpuplan-secret-2" = "$${aws:RequestTag/gpuplan-secret-2}"
            "aws:ResourceTag/gpuplan-secret-3" = "$${aws:RequestTag/gpuplan-secret-3}"
            "aws:ResourceTag/gpuplan-secret-4" = "$${aws:RequestTag/gpuplan-secret-4}"
            "aws:ResourceTag/gpuplan-secret-5" = "$${aws:RequestTag/gpuplan-secret-5}"
          }
        }
      },
      {
        Sid       = "GiveThemThePolicyOfRuns"
        Effect    = "Allow"
        Action    = ["iam:AttachRolePolicy", "iam:DetachRolePolicy"]
        Resource  = "arn:aws:iam::${data.aws_caller_identity.me.account_id}:role/gpuplan/*"
        Condition = { ArnEquals = { "iam:PolicyARN" = "arn:aws:iam::${data.aws_caller_identity.me.account_id}:policy/${var.name}-run" } }
      },
      {
        Sid      = "DeleteThem"
        Effect   = "Allow"
        Action   = "iam:DeleteRole"
        Resource = "arn:aws:iam::${data.aws_caller_identity.me.account_id}:role/gpuplan/*"
      },
      {
        Sid    = "PutThemIntoProfiles"
        Effect = "Allow"
        Action = [
          "iam:GetInstanceProfile",
          "iam:CreateInstanceProfile",
          "iam:AddRoleToInstanceProfile",
          "iam:RemoveRoleFromInstanceProfile",
          "iam:DeleteInstanceProfile"
        ]
        Resource = "arn:aws:iam::${data.aws_caller_identity.me.account_id}:instance-profile/gpuplan/*"
      }
    ]
  })
}

resource "aws_iam_role_policy_attachment" "leader_makes_roles" {
  count      = var.role_per_run ? 1 : 0
  role       = aws_iam_role.leader.name
  policy_arn = aws_iam_policy.run_roles[0].arn
}

output "run_roles_policy" {
  value = one(aws_iam_policy.run_roles[*].arn)
}
