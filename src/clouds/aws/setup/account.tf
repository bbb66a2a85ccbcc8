variable "spot_p_vcpus" {
  type        = number
  default     = 0
  description = "vCPUs of P machines (A100, H100, H200, B200) to ask for as spot; 0 asks for nothing."
}

variable "spot_g_vcpus" {
  type        = number
  default     = 0
  description = "The same for G and VT machines (T4, A10G, L4, L40S)."
}

variable "on_demand_p_vcpus" {
  type    = number
  default = 0
}

variable "on_demand_g_vcpus" {
  type    = number
  default = 0
}

variable "undelete_days" {
  type        = number
  default     = 3
  description = "Days for which a deleted object can be brought back; checkpoints that are no longer kept are billed so much longer."
}

data "aws_caller_identity" "me" {}

resource "aws_s3_bucket" "runs" {
  bucket = "${var.name}-runs-${data.aws_caller_identity.me.account_id}-${var.region}"
}

# What was deleted or overwritten by mistake, or by a program that a machine ran, can be brought back for some days. It is billed meanwhile.
resource "aws_s3_bucket_versioning" "runs" {
  bucket = aws_s3_bucket.runs.id
  versioning_configuration {
    status = "Enabled"
  }
}

resource "aws_s3_bucket_public_access_block" "runs" {
  bucket                  = aws_s3_bucket.runs.id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

# A checkpoint that was cut off half-way is billed until somebody ends it.
resource "aws_s3_bucket_lifecycle_configuration" "runs" {
  bucket = aws_s3_bucket.runs.id
  rule {
    id     = "unfinished-uploads"
    status = "Enabled"
    filter {}
    abort_incomplete_multipart_upload {
      days_after_initiation = 1
    }
  }
  rule {
    id     = "deleted-objects"
    status = "Enabled"
    filter {}
    noncurrent_version_expiration {
      noncurrent_days = var.undelete_days
    }
    expiration {
      expired_object_delete_marker = true
    }
  }
  depends_on = [aws_s3_bucket_versioning.runs]
}

resource "aws_iam_role" "machine" {
  name = "${var.name}-machine"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { Service = "ec2.amazonaws.com" }
    }]
  })
}

# A machine reads the bucket and writes what agents write below runs/RUN. It deletes no version, so all of that can be brought back, and
# it cannot change what other machines would run: agents, folders of jobs, data, specifications. It ends itself and no other machine.
resource "aws_iam_role_policy" "machine" {
  role = aws_iam_role.machine.id
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
          "${aws_s3_bucket.runs.arn}/*runs/*/epochs/*",
          "${aws_s3_bucket.runs.arn}/*runs/*/manifests/*",
          "${aws_s3_bucket.runs.arn}/*runs/*/data/*",
          "${aws_s3_bucket.runs.arn}/*runs/*/nodes/*",
          "${aws_s3_bucket.runs.arn}/*runs/*/start/*",
          "${aws_s3_bucket.runs.arn}/*runs/*/wanted/*",
          "${aws_s3_bucket.runs.arn}/*runs/*/parts/*",
          "${aws_s3_bucket.runs.arn}/*runs/*/leaving/*",
          "${aws_s3_bucket.runs.arn}/*runs/*/status/*",
          "${aws_s3_bucket.runs.arn}/*runs/*/billed/*",
          "${aws_s3_bucket.runs.arn}/*runs/*/logs/*",
          "${aws_s3_bucket.runs.arn}/*runs/*/events/*",
          "${aws_s3_bucket.runs.arn}/*runs/*/dataset.json",
          "${aws_s3_bucket.runs.arn}/*runs/*/sweep.json",
          "${aws_s3_bucket.runs.arn}/*runs/*/result.json"
        ]
      },
      {
        # A star takes slashes too, so the lists above and below would hold for a folder of the same name within the data of a job, which lies below
        # a digest of 64 signs.
        Effect   = "Deny"
        Action   = ["s3:PutObject", "s3:DeleteObject"]
        Resource = "${aws_s3_bucket.runs.arn}/*runs/*/dataset/????????????????????????????????????????????????????????????????/*"
      },
      {
        # What is no longer kept.
        Effect = "Allow"
        Action = "s3:DeleteObject"
        Resource = [
          "${aws_s3_bucket.runs.arn}/*runs/*/manifests/*",
          "${aws_s3_bucket.runs.arn}/*runs/*/data/*",
          "${aws_s3_bucket.runs.arn}/*runs/*/wanted/*",
          "${aws_s3_bucket.runs.arn}/*runs/*/parts/*"
        ]
      },
      {
        Effect   = "Allow"
        Action   = "s3:ListBucket"
        Resource = aws_s3_bucket.runs.arn
      },
      {
        # What `--secret` names.
        Effect   = "Allow"
        Action   = "secretsmanager:GetSecretValue"
        Resource = "arn:aws:secretsmanager:*:${data.aws_caller_identity.me.account_id}:secret:${var.name}/*"
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
        Condition = { StringLike = { "aws:ResourceTag/gpuplan:run" = "*" } }
      }
    ]
  })
}

# `gpuplan ssh` comes in through Session Manager, without an open port.
resource "aws_iam_role_policy_attachment" "sessions" {
  role       = aws_iam_role.machine.name
  policy_arn = "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"
}

resource "aws_iam_instance_profile" "machine" {
  name = "${var.name}-machine"
  role = aws_iam_role.machine.name
}

# `gpuplan launch --leader aws`: a machine that leads a run does what whoever launches may do, but starts no other leader and buys nothing up
# front. Only gpuplan itself runs there.
resource "aws_iam_role" "leader" {
  name = "${var.name}-leader"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { Service = "ec2.amazonaws.com" }
    }]
  })
}

resource "aws_iam_role_policy_attachment" "leader_launches" {
  role       = aws_iam_role.leader.name
  policy_arn = aws_iam_policy.launch.arn
}

# Its own run is kept as any other.
resource "aws_iam_role_policy" "leader_works" {
  role   = aws_iam_role.leader.id
  policy = aws_iam_role_policy.machine.policy
}

resource "aws_iam_role_policy" "leader" {
  role = aws_iam_role.leader.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        # What others would run.
        Effect = "Deny"
        Action = "s3:PutObject"
        Resource = [
          "${aws_s3_bucket.runs.arn}/*runs/_bin/*",
          "${aws_s3_bucket.runs.arn}/*runs/*/workdir/*",
          "${aws_s3_bucket.runs.arn}/*runs/*/spec.json"
        ]
      },
      {
        Effect   = "Deny"
        Action   = "iam:PassRole"
        Resource = aws_iam_role.leader.arn
      },
      {
        Effect   = "Deny"
        Action   = "ec2:PurchaseCapacityBlock"
        Resource = "*"
      }
    ]
  })
}

resource "aws_iam_role_policy_attachment" "leader_sessions" {
  role       = aws_iam_role.leader.name
  policy_arn = "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"
}

resource "aws_iam_instance_profile" "leader" {
  name = "${var.name}-leader"
  role = aws_iam_role.leader.name
}

# As which EventBridge Scheduler ends a machine whose own timers failed. It can do nothing else.
resource "aws_iam_role" "end" {
  name = "${var.name}-end"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { Service = "scheduler.amazonaws.com" }
      Condition = { StringEquals = { "aws:SourceAccount" = data.aws_caller_identity.me.account_id } }
    }]
  })
}

resource "aws_iam_role_policy" "end" {
  role = aws_iam_role.end.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "ec2:TerminateInstances"
      Resource  = "arn:aws:ec2:*:${data.aws_caller_identity.me.account_id}:instance/*"
      Condition = { StringLike = { "aws:ResourceTag/gpuplan:run" = "*" } }
    }]
  })
}

locals {
  quotas = {
    "L-7212CCBC" = var.spot_p_vcpus
    "L-3819A6DF" = var.spot_g_vcpus
    "L-417A185B" = var.on_demand_p_vcpus
    "L-DB2E81BA" = var.on_demand_g_vcpus
  }
}

resource "aws_servicequotas_service_quota" "vcpus" {
  for_each     = { for code, value in local.quotas : code => value if value > 0 }
  service_code = "ec2"
  quota_code   = each.key
  value        = each.value
}

# What whoever launches may do, and nothing else: give it to a user or role with aws_iam_user_policy_attachment or the like.
resource "aws_iam_policy" "launch" {
  name = "${var.name}-launch"
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid    = "Look"
        Effect = "Allow"
        Action = [
          "ec2:DescribeRegions",
          "ec2:DescribeInstances",
          "ec2:DescribeInstanceTypes",
          "ec2:DescribeInstanceTypeOfferings",
          "ec2:DescribeImages",
          "ec2:DescribeSecurityGroups",
          "ec2:DescribeSubnets",
          "ec2:DescribePlacementGroups",
          "ec2:DescribeFleets",
          "ec2:DescribeLaunchTemplates",
          "ec2:DescribeAvailabilityZones",
          "ec2:DescribeSpotPriceHistory",
          "ec2:DescribeCapacityBlockOfferings",
          "ec2:DescribeCapacityReservations",
          "servicequotas:GetServiceQuota",
          "servicequotas:ListServiceQuotas"
        ]
        Resource = "*"
      },
      {
        Sid    = "RentWithTheMarkOfARun"
        Effect = "Allow"
        Action = ["ec2:RunInstances", "ec2:CreatePlacementGroup", "ec2:CreateFleet", "ec2:CreateLaunchTemplate"]
        Resource = [
          "arn:aws:ec2:*:*:fleet/*",
          "arn:aws:ec2:*:*:launch-template/*",
          "arn:aws:ec2:*:*:instance/*",
          "arn:aws:ec2:*:*:spot-instances-request/*",
          "arn:aws:ec2:*:*:placement-group/*"
        ]
        Condition = { StringLike = { "aws:RequestTag/gpuplan:run" = "*" } }
      },
      {
        # `launch --buy-capacity-block` pays up front. Take this away from whoever may not.
        Sid       = "BuyBlocks"
        Effect    = "Allow"
        Action    = "ec2:PurchaseCapacityBlock"
        Resource  = "arn:aws:ec2:*:*:capacity-reservation/*"
        Condition = { StringLike = { "aws:RequestTag/gpuplan:run" = "*" } }
      },
      {
        Sid    = "RentOnWhatIsThere"
        Effect = "Allow"
        Action = ["ec2:RunInstances", "ec2:CreateFleet"]
        Resource = [
          "arn:aws:ec2:*:*:launch-template/*",
          "arn:aws:ec2:*::image/*",
          "arn:aws:ec2:*::snapshot/*",
          "arn:aws:ec2:*:*:volume/*",
          "arn:aws:ec2:*:*:network-interface/*",
          "arn:aws:ec2:*:*:security-group/*",
          "arn:aws:ec2:*:*:subnet/*",
          "arn:aws:ec2:*:*:capacity-reservation/*",
          "arn:aws:ec2:*:*:placement-group/*"
        ]
      },
      {
        Sid       = "MarkAsItIsMade"
        Effect    = "Allow"
        Action    = "ec2:CreateTags"
        Resource  = "arn:aws:ec2:*:*:*/*"
        Condition = { StringEquals = { "ec2:CreateAction" = ["RunInstances", "CreatePlacementGroup", "CreateFleet", "CreateLaunchTemplate", "PurchaseCapacityBlock"] } }
      },
      {
        Sid       = "EndWhatBearsTheMark"
        Effect    = "Allow"
        Action    = ["ec2:TerminateInstances", "ec2:DeletePlacementGroup", "ec2:DeleteFleets", "ec2:DeleteLaunchTemplate"]
        Resource  = "*"
        Condition = { StringLike = { "aws:ResourceTag/gpuplan:run" = "*" } }
      },
      {
        Sid       = "GiveMachinesTheirRole"
        Effect    = "Allow"
        Action    = "iam:PassRole"
        Resource  = [aws_iam_role.machine.arn, aws_iam_role.leader.arn, "arn:aws:iam::${data.aws_caller_identity.me.account_id}:role/gpuplan/*"]
        Condition = { StringEquals = { "iam:PassedToService" = "ec2.amazonaws.com" } }
      },
      {
        # Whether runs have roles of their own here.
        Sid      = "KnowThePolicyOfRuns"
        Effect   = "Allow"
        Action   = "iam:GetPolicy"
        Resource = "arn:aws:iam::${data.aws_caller_identity.me.account_id}:policy/${var.name}-run"
      },
      {
        # A machine that hangs ends all the same.
        Sid      = "ScheduleTheEndOfMachines"
        Effect   = "Allow"
        Action   = ["scheduler:CreateSchedule", "scheduler:UpdateSchedule", "scheduler:DeleteSchedule"]
        Resource = "arn:aws:scheduler:*:*:schedule/default/gpuplan-i-*"
      },
      {
        Sid       = "GiveSchedulesTheirRole"
        Effect    = "Allow"
        Action    = "iam:PassRole"
        Resource  = aws_iam_role.end.arn
        Condition = { StringEquals = { "iam:PassedToService" = "scheduler.amazonaws.com" } }
      },
      {
        # Once in the life of an account, before its first spot machine and its first fleet.
        Sid       = "LetSpotWork"
        Effect    = "Allow"
        Action    = "iam:CreateServiceLinkedRole"
        Resource  = "*"
        Condition = { StringEquals = { "iam:AWSServiceName" = ["spot.amazonaws.com", "ec2fleet.amazonaws.com"] } }
      },
      {
        Sid       = "ComeIn"
        Effect    = "Allow"
        Action    = "ssm:StartSession"
        Resource  = "arn:aws:ec2:*:*:instance/*"
        Condition = { StringLike = { "ssm:resourceTag/gpuplan:run" = "*" } }
      },
      {
        # `gpuplan exec`, `cp` and `forward` go by OpenSSH, through such a session, with a key that is there for a minute.
        Sid      = "ComeInBySsh"
        Effect   = "Allow"
        Action   = "ssm:StartSession"
        Resource = "arn:aws:ssm:*::document/AWS-StartSSHSession"
      },
      {
        Sid       = "LendAKey"
        Effect    = "Allow"
        Action    = "ec2-instance-connect:SendSSHPublicKey"
        Resource  = "arn:aws:ec2:*:*:instance/*"
        Condition = { StringLike = { "aws:ResourceTag/gpuplan:run" = "*" } }
      },
      {
        Sid      = "StayIn"
        Effect   = "Allow"
        Action   = ["ssm:ResumeSession", "ssm:TerminateSession", "ssmmessages:OpenDataChannel"]
        Resource = "arn:aws:ssm:*:*:session/$${aws:userid}-*"
      },
      {
        Sid      = "KeepRuns"
        Effect   = "Allow"
        Action   = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"]
        Resource = "${aws_s3_bucket.runs.arn}/*"
      },
      {
        Sid      = "ListRuns"
        Effect   = "Allow"
        Action   = ["s3:ListBucket", "s3:GetLifecycleConfiguration", "s3:GetBucketVersioning", "s3:GetBucketRequestPayment"]
        Resource = aws_s3_bucket.runs.arn
      }
    ]
  })
}

output "launch_policy" {
  value = aws_iam_policy.launch.arn
}

output "store" {
  value = "s3://${aws_s3_bucket.runs.id}"
}

output "instance_profile" {
  value = aws_iam_instance_profile.machine.name
}
